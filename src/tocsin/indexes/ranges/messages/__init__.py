"""Messages: what a change of a row means for the subscriptions of a space, as rectangles of it."""
