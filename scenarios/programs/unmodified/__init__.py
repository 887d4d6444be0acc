"""Programs that know of nothing but `TF_CONFIG`."""
