"""What the windows program is made of: workloads and measuring."""
