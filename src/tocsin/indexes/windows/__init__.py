"""Preference top-k over windows and tables that are updated."""

from tocsin.indexes.windows.scan import PreferenceScan

__all__ = ["PreferenceScan"]
