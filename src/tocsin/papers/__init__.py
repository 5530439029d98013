"""The five papers as published, a folder a paper, with the baselines they were measured against.

The same contract as the engine's own indexes; nothing here is imported unless it is asked for.
"""
