"""Exports: the targets in the appliance's folder of exports, how they are downloaded, and how an export is started and stopped."""
