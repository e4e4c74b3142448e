package main

import (
	"slices"

	"sigs.k8s.io/yaml"
)

// Implementation is the subject of a report.
type Implementation struct {
	Organization string   `json:"organization"`
	Project      string   `json:"project"`
	URL          string   `json:"url"`
	Version      string   `json:"version"`
	Contact      []string `json:"contact"`
}

type report struct {
	Kind           string          `json:"kind"`
	Implementation Implementation  `json:"implementation"`
	Shape          Shape           `json:"statusShape"`
	Clusters       int             `json:"clusters"`
	Profiles       []profileReport `json:"profiles"`
}

type profileReport struct {
	Name Profile `json:"name"`
	Core core    `json:"core"`
}

type core struct {
	Result       string     `json:"result"` // success, failure, or partial (tests were skipped)
	Statistics   statistics `json:"statistics"`
	SkippedTests []string   `json:"skippedTests,omitempty"`
	FailedTests  []string   `json:"failedTests,omitempty"`
}

type statistics struct {
	Passed, Skipped, Failed int
}

// Report returns the report of a run as YAML, without times, so that equal results give equal
// reports.
func (s *Suite) Report(implementation Implementation, results []Result) ([]byte, error) {
	r := report{Kind: "ClusterSetConformanceReport", Implementation: implementation, Shape: s.config.Shape,
		Clusters: len(s.config.Clusters)}
	for _, p := range Profiles {
		if !slices.Contains(s.config.Profiles, p) {
			continue
		}
		one := core{Result: "success"}
		for _, result := range results {
			switch {
			case result.Profile != p:
			case result.Err != nil:
				one.Statistics.Failed++
				one.FailedTests = append(one.FailedTests, result.Name)
			case result.Skipped != "":
				one.Statistics.Skipped++
				one.SkippedTests = append(one.SkippedTests, result.Name)
			default:
				one.Statistics.Passed++
			}
		}
		if one.Statistics.Failed > 0 {
			one.Result = "failure"
		} else if one.Statistics.Skipped > 0 {
			one.Result = "partial"
		}
		r.Profiles = append(r.Profiles, profileReport{Name: p, Core: one})
	}
	return yaml.Marshal(r)
}
