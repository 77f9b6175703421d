"""What ships: ONNX export, half precision, TensorRT build."""
