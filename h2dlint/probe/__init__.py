"""`h2dlint probe`: measures on the present GPU what the rules say of copies. Nothing of it is loaded by `check`."""
