// A chained CNI plugin: before a pod's containers start, it announces the pod's address and waits
// until the NetworkPolicies hold for it. It changes nothing itself, so it has nothing to undo.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"orbiter.dev/localcluster/announce"
)

const failed = 100 // CNI leaves the codes from 100 on to plugins

type configuration struct {
	Version    string          `json:"cniVersion"`
	PrevResult json.RawMessage `json:"prevResult"`
}

type result struct {
	IPs []struct {
		Address netip.Prefix `json:"address"`
	} `json:"ips"`
}

func main() {
	var config configuration
	err := json.NewDecoder(os.Stdin).Decode(&config)
	if err == nil {
		err = act(os.Getenv("CNI_COMMAND"), config)
	}
	if err != nil {
		say(map[string]any{"cniVersion": config.Version, "code": failed,
			"msg": "network policies: " + err.Error()})
		os.Exit(1)
	}
}

func act(command string, config configuration) error {
	switch command {
	case "VERSION":
		say(map[string]any{"cniVersion": config.Version,
			"supportedVersions": []string{"0.3.1", "0.4.0", "1.0.0"}})
	case "ADD":
		pod, err := newPod(os.Getenv("CNI_ARGS"), config.PrevResult)
		if err != nil {
			return err
		}
		if err := announce.Send(pod); err != nil {
			return fmt.Errorf("pod %s/%s with %s: %w", pod.Namespace, pod.Name, pod.IP, err)
		}
		say(config.PrevResult)
	}
	return nil // DEL, CHECK
}

func newPod(arguments string, previous []byte) (announce.Pod, error) {
	words := map[string]string{}
	for _, word := range strings.Split(arguments, ";") {
		name, value, _ := strings.Cut(word, "=")
		words[name] = value
	}
	pod := announce.Pod{
		UID: words["K8S_POD_UID"], Namespace: words["K8S_POD_NAMESPACE"], Name: words["K8S_POD_NAME"],
	}
	if pod.UID == "" {
		return pod, errors.New("CNI_ARGS has no K8S_POD_UID")
	}
	var before result
	if err := json.Unmarshal(previous, &before); err != nil {
		return pod, fmt.Errorf("prevResult: %w", err)
	}
	for _, ip := range before.IPs {
		if ip.Address.Addr().Is4() {
			pod.IP = ip.Address.Addr().String()
			return pod, nil
		}
	}
	return pod, errors.New("prevResult has no IPv4 address")
}

func say(value any) {
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		os.Exit(1)
	}
}
