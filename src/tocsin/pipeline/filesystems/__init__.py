"""File systems that the driver writes to: the local disk, and those that Hadoop's client reaches."""
