"""Delivers messages to subscriptions: zones of subscription space, carriers, edges."""
