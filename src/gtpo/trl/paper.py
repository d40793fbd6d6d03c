"""What model cards and reports cite."""

import textwrap

PAPER = {
    "title": "GTPO: Stabilizing Group Relative Policy Optimization via Gradient and Entropy Control",
    "id": "2508.03772",
    "citation": textwrap.dedent("""\
        @article{simoni2025gtpo,
            title        = {{GTPO: Stabilizing Group Relative Policy Optimization
                             via Gradient and Entropy Control}},
            author       = {Marco Simoni and Aleksandar Fontana and Giulio Rossolini
                            and Andrea Saracino and Paolo Mori},
            year         = 2025,
            eprint       = {arXiv:2508.03772},
        }"""),
}
