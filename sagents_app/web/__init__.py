"""What people and programs reach over HTTP and WebSocket."""
