"""Messages on their way: zones of subscription space, brokers, carriers, and the papers' simulator."""
