"""Messages on their way: zones of subscription space, carriers, edges."""
