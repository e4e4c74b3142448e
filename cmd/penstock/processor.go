package main

import (
	"fmt"
	"net/url"
	"os"
	"strconv"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
)

// Variables of the environment that the Dynamo proposal names.
const (
	envProcessor    = "EXTERNAL_LLM_PROCESSOR_ENDPOINT"
	envUseProcessor = "USE_EXTERNAL_LLM_PROCESSOR"
	envUseRouter    = "USE_EXTERNAL_LLM_ROUTER"
)

// defaultProcessor reads the processor of pools whose policy names none.
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
		return out, fmt.Errorf("environment variable %s=%s: it needs %s, such as http://processor:8080", envUseProcessor, os.Getenv(envUseProcessor), envProcessor)
	case text != "" && (err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" || at.User != nil || at.RawQuery != "" || at.Fragment != ""):
		return out, fmt.Errorf("environment variable %s=%q: write http://HOST:PORT or https://HOST:PORT, with or without a path", envProcessor, text)
	}
	out.URL = text
	return out, nil
}
