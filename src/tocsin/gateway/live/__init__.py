"""From the hub to clients: group commit, feeds, and the sinks that feeds write to."""
