package main

import (
	"context"
	"os/exec"
)

// measureUpgrade tests upgrades and rollbacks under load, from the version in
// conformance/features/upgrade.txt. Helm needs a lab.
func measureUpgrade(ctx context.Context, c config, out report) error {
	test := func(tags, run, folder string) error {
		return printed(ctx, exec.Command("go", "test", "-trimpath", "-vet=off", "-v", "-count=1", "-timeout", "60m",
			"-tags", tags, "-run", run, folder), out)
	}
	const folder = "^TestUpgrade_(ControlPlanesAreReplacedUnderLoad|UpIsReplacedInPlace)$"
	if err := test("upgrade", folder, "./features"); err != nil || !c.labs {
		return err
	}
	return test("lab,upgrade", "^TestUpgrade_Helm", "./promises/chart")
}
