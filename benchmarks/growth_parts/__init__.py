"""What the program of growth is made of: worlds, and the curves that are drawn through them."""
