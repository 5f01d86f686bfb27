"""The kinds of pictures, a module each."""
