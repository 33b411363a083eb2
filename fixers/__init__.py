"""One rewrite a file, named for what it does: a function from a copy and its region to a fix, or none."""
