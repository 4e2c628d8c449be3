"""Exports: the tables in the appliance's folder of exports, and how an export is started and stopped."""
