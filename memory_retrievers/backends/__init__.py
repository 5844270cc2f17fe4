"""The engines behind the sockets: one third party per file, and only that file imports it."""
