"""Builds the report and renders it: one object, as many formats as there are modules in ``formats``."""
