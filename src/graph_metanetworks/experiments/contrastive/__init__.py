"""What the report of contrastive learning shows in addition to the common sections."""
