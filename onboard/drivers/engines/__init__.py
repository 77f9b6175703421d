"""Inference engines: onnxruntime and TensorRT."""
