"""The engines that sample: transformers and vLLM."""
