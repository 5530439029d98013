"""Who may what: tenants and their keys, in a database."""

from tocsin.gateway.registry.identity import SCOPES, Identity, Quotas, Tenant
from tocsin.gateway.registry.registry import OPERATOR, KeyInfo, Registry

__all__ = ["OPERATOR", "SCOPES", "Identity", "KeyInfo", "Quotas", "Registry", "Tenant"]
