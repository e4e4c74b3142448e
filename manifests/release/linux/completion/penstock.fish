penstock completion fish | source
