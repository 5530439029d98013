"""What the program of choices is made of: tasks, and what a user would take for them."""
