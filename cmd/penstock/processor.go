package main

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/picker"
)

// These environment variables are defined by the Dynamo proposal.
const (
	envProcessor    = "EXTERNAL_LLM_PROCESSOR_ENDPOINT"
	envUseProcessor = "USE_EXTERNAL_LLM_PROCESSOR"
	envUseRouter    = "USE_EXTERNAL_LLM_ROUTER"
)

func defaultProcessor() (out app.Processor, err error) {
	use := true
	for name, to := range map[string]*bool{envUseProcessor: &use, envUseRouter: &out.Route} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		if *to, err = strconv.ParseBool(text); err != nil {
			return out, fmt.Errorf("environment variable %s=%q: write true or false", name, text)
		}
	}
	text := os.Getenv(envProcessor)
	switch at, err := url.Parse(text); {
	case !use:
		return out, nil
	case text == "" && os.Getenv(envUseProcessor) != "":
		return out, fmt.Errorf("environment variable %s=%s: it needs %s, such as http://processor:8080",
			envUseProcessor, os.Getenv(envUseProcessor), envProcessor)
	case text != "" && (err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" ||
		at.User != nil || at.RawQuery != "" || at.Fragment != ""):
		if strings.Contains(text, "@") { // the URL may have a password
			text = "..."
		}
		return out, fmt.Errorf("environment variable %s=%q: write http://HOST:PORT or https://HOST:PORT, with or "+
			"without a path", envProcessor, text)
	}
	out.URL = text
	return out, nil
}

func processedText(d *picker.Processed) string {
	text := fmt.Sprintf("%s in %v", d.Outcome, d.Took.Round(100*time.Microsecond))
	if d.Error != "" {
		text += ": " + d.Error
	}
	if d.Tokens > 0 {
		text += ", " + counted(d.Tokens, "token")
	}
	if d.Worker != "" {
		text += ", worker " + d.Worker
	}
	if d.Own != "" {
		text += "; the pool's strategy decides (" + d.Own + ")"
	}
	return text
}

func preparesText(d *picker.Prepares) string {
	text := fmt.Sprintf("%s (%d addresses) is asked first", d.Host, d.Addresses)
	if d.Addresses == 1 {
		text = d.Host + " is asked first"
	}
	switch {
	case d.Addresses == 0:
		text = d.Host + " has no address, and is not asked"
	case d.Open:
		text = d.Host + " has failed five times in a row, and is not asked for 10 s"
	case d.Route:
		text += ", and chooses the endpoint"
	}
	return text
}
