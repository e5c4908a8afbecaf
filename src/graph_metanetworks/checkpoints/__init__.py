"""Networks that others have saved: checkpoints of any format, their builders and their example inputs."""
