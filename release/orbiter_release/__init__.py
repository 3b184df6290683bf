"""What one tag releases: packages, chart, images, and what there is to know of them.

`cli.py` has the steps in their order; each of the other files is one of them.
"""
