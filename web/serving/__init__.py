"""Serving: declared routes as HTTP. The only room besides `application` that handles requests of Sanic."""
