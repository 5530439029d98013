"""What the indexes over rows share: bounds of subscriptions, rows, and the images of each step."""
