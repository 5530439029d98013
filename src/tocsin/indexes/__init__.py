"""The engine's own indexes, a folder a question, and the contract that they share with the engine."""
