"""Problems with verifiable answers."""
