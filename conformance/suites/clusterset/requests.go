package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
)

func requestFollowsPick(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm", one.entry())
	gw.route("llm")
	gw.answers(http.StatusOK, "")
	for range 3 {
		for _, server := range one.servers {
			one.picker.follow(server, 0)
			for range 5 {
				if got := gw.chat(http.StatusOK); got.Server != server.String() {
					r.fail("the picker names %s, but %s serves", server, got.Server)
				}
			}
		}
	}
}

func pickersAreNotMixed(r *run) {
	gw, one, two := r.enter(), r.stands("one"), r.stands("two")
	gw.write("llm", one.entry(), two.entry())
	gw.route("llm")
	gw.answers(http.StatusOK, "one")
	gw.answers(http.StatusOK, "two")
	served := map[string]int{}
	for range 100 {
		got := gw.chat(http.StatusOK)
		served[got.Cluster]++
		asked := map[string]int{"one": one.picker.call(got.id).count, "two": two.picker.call(got.id).count}
		if other := map[string]string{"one": "two", "two": "one"}[got.Cluster]; asked[got.Cluster] == 0 ||
			asked[other] > 0 {
			r.fail("cluster %s serves a request for which the pickers were asked so often: %v", got.Cluster, asked)
		}
	}
	if served["one"] == 0 || served["two"] == 0 {
		r.fail("of 100 requests one cluster got all: %v", served)
	}
}

func pickerSeesTheBody(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm", one.entry())
	gw.route("llm")
	gw.answers(http.StatusOK, "one")
	body := fmt.Appendf(nil, `{"model": "any", "messages": [{"role": "user", "content": "%s"}]}`,
		bytes.Repeat([]byte("x"), 200_000))
	got, err := gw.ask(completions, body)
	r.must(err)
	if got.status != http.StatusOK {
		r.fail("a body of %d bytes is answered with %d", len(body), got.status)
	}
	if picked, served := one.picker.call(got.id).body, one.body(got.id); picked != len(body) || served != len(body) {
		r.fail("of a body of %d bytes the picker received %d, and the model server %d", len(body), picked, served)
	}
}

func servedEndpoint(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm", one.entry())
	gw.route("llm")
	got := gw.answers(http.StatusOK, "one")
	r.until("the picker receives "+servedKey, func() error {
		if served := one.picker.call(got.id).served; served != got.Server {
			return fmt.Errorf("it is %q, want %q", served, got.Server)
		}
		return nil
	})
}

func pickerRejects(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm", one.entry())
	gw.route("llm")
	gw.answers(http.StatusOK, "one")
	one.picker.follow(one.servers[0], http.StatusTooManyRequests)
	for range 5 {
		gw.chat(http.StatusTooManyRequests)
	}
}

func pinnedCluster(r *run) {
	gw, one, two := r.enter(), r.stands("one"), r.stands("two")
	gw.write("llm", one.entry(), two.entry())
	gw.route("llm-two")
	gw.answers(http.StatusOK, "two")
	for range 20 {
		if got := gw.chat(http.StatusOK); got.Cluster != "two" {
			r.fail("cluster %s serves a request to llm-two", got.Cluster)
		}
	}
	gw.reroute("llm-one")
	gw.answers(http.StatusOK, "one")
	for range 20 {
		if got := gw.chat(http.StatusOK); got.Cluster != "one" {
			r.fail("cluster %s serves a request to llm-one", got.Cluster)
		}
	}
}

func weightedImports(r *run) {
	gw, one, two, three := r.enter(), r.stands("one"), r.stands("two"), r.stands("three")
	gw.write("a", one.entry())
	gw.write("b", two.entry())
	gw.write("c", three.entry())
	gw.route("a=3", "b=1", "c=0")
	gw.answers(http.StatusOK, "one")
	gw.answers(http.StatusOK, "two")
	const sent = 400
	served := map[string]float64{}
	for range sent {
		served[gw.chat(http.StatusOK).Cluster]++
	}
	// If a gateway chooses at random, the share's standard deviation is 0.022.
	if share := served["one"] / sent; math.Abs(share-0.75) > 0.1 || served["three"] > 0 {
		r.fail("weights 3, 1 and 0: of %d requests the clusters got %v", sent, served)
	}
}

func parentMode(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm", one.parentEntry())
	gw.route("llm")
	gw.answers(http.StatusOK, "one")
	for range 10 {
		if got := gw.chat(http.StatusOK); one.picker.call(got.id).count > 0 {
			r.fail("the picker was asked")
		}
	}
}

func streamedResponse(r *run) {
	gw, one := r.enter(), r.stands("one")
	gw.write("llm", one.entry())
	gw.route("llm")
	gw.answers(http.StatusOK, "one")
	req, err := http.NewRequestWithContext(r, http.MethodPost, gw.url+"/stream", bytes.NewReader(chat))
	r.must(err)
	req.Header.Set("content-type", "application/json")
	resp, err := gw.client.Do(req)
	r.must(err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	line, err := lines.ReadString('\n')
	if line != "data: first\n" {
		r.must(errors.Join(fmt.Errorf("a streamed response of status %d begins with %q", resp.StatusCode, line), err))
	}
	close(one.release)
	if _, err := lines.ReadString('\n'); err != nil {
		r.fail("a streamed response: %w", err)
	}
	if line, err = lines.ReadString('\n'); line != "data: last\n" {
		r.must(errors.Join(fmt.Errorf("a streamed response ends with %q", line), err))
	}
}

func changedImport(r *run) {
	gw, exporters := r.enter(), []*exporter{r.stands("one"), r.stands("two")}
	gw.write("llm", exporters[0].entry())
	gw.route("llm")
	gw.answers(http.StatusOK, "one")
	for i := range 6 {
		now := exporters[(i+1)%2]
		gw.write("llm", now.entry())
		r.until("cluster "+now.name+" serves", func() error {
			if got := gw.chat(http.StatusOK); got.Cluster != now.name {
				return fmt.Errorf("cluster %s does, want %s", got.Cluster, now.name)
			}
			return nil
		})
		for range 20 {
			if got := gw.chat(http.StatusOK); got.Cluster != now.name {
				r.fail("cluster %s serves, which the import has no more", got.Cluster)
			}
		}
	}
}
