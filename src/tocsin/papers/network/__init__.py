"""The link-level simulator: S-UN, S-MN, CN, CN+, S-CN and others over an internet-like topology.

Badrish Chandramouli, Junyi Xie, Jun Yang: "On the Database/Network Interface in Large-Scale Publish/Subscribe
Systems", SIGMOD 2006. See `docs/papers/network.md`.
"""
