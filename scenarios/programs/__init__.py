"""Training programs that the scenarios verify, each written the way TensorFlow's own tutorials write them."""
