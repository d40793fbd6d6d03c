"""From a recipe to a trained model in a folder of its own: what `gtpo train` does.

config/                     recipe and command line, merged into a checked plan
inputs/, held_out           problems, rewards, adapters; the problems that are not trained on
prepare                     everything but weights, loaded and checked
summary, memory, trust      what is printed before the start: settings, memory, what else a run causes
run_folder, checkpoints     the folder of a run
session, validation         the run, and evaluations while it trains
publish/                    the model card and the hub
"""
