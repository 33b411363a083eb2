"""What earlier runs found out, kept in one SQLite file, and whether it still holds.

An entry is the outcome of one file. It is found by what the file, the settings and the versions are, and it counts only
if everything that the facts came from is as it was: the content of other files, and the answers of the tree to the
questions that were asked of it. docs/cache.md says it for users.
"""
