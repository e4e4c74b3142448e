package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
)

type figure struct {
	Name  string   `json:"name"` // the benchmark's full name without the number of CPUs
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`  // "ns/op", "B/op", or the unit of b.ReportMetric
	Limit *float64 `json:"limit"` // largest acceptable value; nil means no limit

	about string
}

var cpus = regexp.MustCompile(`-\d+$`)

// parse skips lines without figures. failed reports a failed package or benchmark.
func parse(r io.Reader) (figures []figure, failed bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
			failed = true
		}
		if strings.HasPrefix(line, "{") {
			f, err := parseObject(line)
			if err != nil {
				return figures, failed, err
			}
			figures = append(figures, f)
			continue
		}
		figures = append(figures, parseLine(line)...)
	}
	return figures, failed, lines.Err()
}

func parseObject(line string) (figure, error) {
	var with struct {
		figure
		About string `json:"about"`
	}
	if err := json.Unmarshal([]byte(line), &with); err != nil {
		return figure{}, fmt.Errorf("figure %s: %w", line, err)
	}
	with.about = with.About
	return with.figure, nil
}

// parseLine parses "BenchmarkName-2 1000 812 ns/op 48 B/op". It returns nil for other lines.
func parseLine(line string) []figure {
	words := strings.Fields(line)
	if len(words) < 4 || len(words)%2 != 0 || !strings.HasPrefix(words[0], "Benchmark") {
		return nil
	}
	if _, err := strconv.Atoi(words[1]); err != nil {
		return nil
	}
	name := cpus.ReplaceAllString(words[0], "")
	limits := map[string]*float64{}
	var figures []figure
	for i := 2; i < len(words); i += 2 {
		value, err := strconv.ParseFloat(words[i], 64)
		if err != nil {
			return nil
		}
		if unit, ok := strings.CutPrefix(words[i+1], "limit-"); ok {
			limits[unit] = &value
			continue
		}
		figures = append(figures, figure{Name: name, Value: value, Unit: words[i+1]})
	}
	for i := range figures {
		figures[i].Limit = limits[figures[i].Unit]
	}
	return figures
}

func write(w io.Writer, figures []figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "value\tunit\tlimit\t\t  figure")
	for _, f := range figures {
		limit, verdict := "-", ""
		if f.Limit != nil {
			limit = number(*f.Limit)
			if f.Value > *f.Limit {
				verdict = "OVER"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t  %s\n", number(f.Value), f.Unit, limit, verdict, f.Name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	explained := false
	for _, f := range figures {
		if f.about != "" {
			fmt.Fprintf(w, "%s: %s\n", f.Name, f.about)
			explained = true
		}
	}
	if explained {
		fmt.Fprintln(w)
	}
	lines := json.NewEncoder(w)
	for _, f := range figures {
		if err := lines.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
