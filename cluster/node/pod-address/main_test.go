package main

import (
	"strings"
	"testing"

	"orbiter.dev/localcluster/announce"
)

const (
	arguments = "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=web;K8S_POD_UID=u"
	previous  = `{"cniVersion":"0.4.0","ips":[{"version":"6","address":"fd00::2/64"},
		{"version":"4","address":"10.244.0.2/16"}]}`
)

func TestAPodIsWhatTheRuntimeAndThePluginBeforeSay(t *testing.T) {
	found, err := newPod(arguments, []byte(previous))
	wanted := announce.Pod{UID: "u", Namespace: "a", Name: "web", IP: "10.244.0.2"}
	if err != nil || found != wanted {
		t.Error(found, err)
	}
}

func TestWithoutAPodOrAnAddressThereIsNoNetwork(t *testing.T) {
	for name, given := range map[string][3]string{
		"no pod":     {"IgnoreUnknown=1", previous, "no K8S_POD_UID"},
		"no address": {arguments, `{"ips":[]}`, "no IPv4 address"},
		"no result":  {arguments, ``, "prevResult"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newPod(given[0], []byte(given[1]))
			if err == nil || !strings.Contains(err.Error(), given[2]) {
				t.Error(err)
			}
		})
	}
}
