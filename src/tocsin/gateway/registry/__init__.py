"""Authorization: tenants and their keys, in a database."""

from tocsin.gateway.registry.identity import EVERY, OPERATOR, SCOPES, Grants, Identity, Quotas, Tenant
from tocsin.gateway.registry.registry import KeyInfo, Registry

__all__ = ["EVERY", "OPERATOR", "SCOPES", "Grants", "Identity", "KeyInfo", "Quotas", "Registry", "Tenant"]
