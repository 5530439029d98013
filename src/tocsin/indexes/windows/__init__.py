"""Preference top-k over windows and tables that are updated."""

from tocsin.indexes.windows.views import PreferenceViews

__all__ = ["PreferenceViews"]
