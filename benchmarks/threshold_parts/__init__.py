"""What the thresholds program is made of: workloads, a player, measuring, a plot."""
