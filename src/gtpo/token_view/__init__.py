"""The token view: what the update does to each token of a group, as an HTML page or in the terminal.

groups                              the groups to show: recorded by a run, or
rollout_files, evaluation_rows,
rollouts, encoders                  built from completions that it logged
fates, changes, summaries           what is said about a token, about all groups, about one group
page, page_data, assets/            the HTML page
terminal                            the same in a terminal
"""
