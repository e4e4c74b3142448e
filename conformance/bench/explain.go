package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/explain"
)

const explainForms = 20_000

func seedOf(variable string) (uint64, error) {
	text := os.Getenv(variable)
	if text == "" {
		return uint64(time.Now().Unix() / (24 * 60 * 60)), nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", variable, err)
	}
	return seed, nil
}

func measureExplain(ctx context.Context, c config, out report) error {
	seed, err := seedOf("EXPLAIN_SEED")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	differences, err := explain.Run(ctx, explain.Config{
		Penstock: c.penstock, Envoy: c.envoy, Dir: dir, Seed: seed, Forms: explainForms, Commands: 20,
	})
	if err != nil {
		return err
	}
	for _, d := range differences[:min(len(differences), 5)] {
		fmt.Fprintln(os.Stderr, d)
	}
	fmt.Fprintf(os.Stderr, "seed %d: %d of %d requests differ\n", seed, len(differences), explainForms)
	out("explain_differs", "", float64(len(differences)))
	return nil
}
