package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// clusterSetName is not in suites, because that suite is unofficial and needs several clusters.
const clusterSetName = "clusterset"

func clusterSet(ctx context.Context, c config) (err error) {
	if c.kubeconfig != "" {
		return errors.New("clusterset: it needs several clusters: run bin/clusterset-conformance on yours")
	}
	names := []string{"east", "west", "north"}
	l, err := installed.Prepare(ctx, lab.Config{Dir: "../.lab-clusterset", Clusters: len(names)})
	if err != nil {
		return fmt.Errorf("clusterset: %w", err)
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	members, err := installed.Members(ctx, l, names...)
	if err != nil {
		return fmt.Errorf("clusterset: %w", err)
	}
	namespaces, err := exec.CommandContext(ctx, "../bin/clusterset-conformance", "-namespaces").Output()
	if err != nil {
		return fmt.Errorf("clusterset: %w", err)
	}
	for _, m := range members {
		if err := m.Join(ctx,
			installed.Spec{Members: m.Others(members), Namespaces: strings.Fields(string(namespaces))}); err != nil {
			return fmt.Errorf("clusterset: %w", err)
		}
	}
	var pairs, addresses []string
	for i, m := range members {
		pairs, addresses = append(pairs, m.Name+"="+l.Contexts()[i]), append(addresses, m.Outside)
	}
	args := []string{"-kubeconfig", l.Kubeconfig(), "-clusters", strings.Join(pairs, ","), "-shape=seed",
		"-gateway-class=penstock",
		"-addresses", strings.Join(addresses[:2], ","), "-run", c.test, "-organization=penstock-project",
		"-project=penstock", "-version", c.version,
		"-url=https://github.com/penstock-project/penstock",
		"-contact=https://github.com/penstock-project/penstock/issues"}
	report := filepath.Join(c.reports, "clusterset.yaml")
	if c.test == "" {
		args = append(args, "-report", report)
	}
	cmd := exec.CommandContext(ctx, "../bin/clusterset-conformance", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil || c.test != "" {
		return err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	return read(text)
}
