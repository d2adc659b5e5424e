"""Where rows come from: what Python people have (`given`), and files (`files`)."""
