"""Self-supervised learning: embeddings that agree between two views of a network (section 5.3)."""
