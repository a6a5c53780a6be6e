// SPDX-License-Identifier: Apache-2.0
// What tests put on their chain: tokens that anybody may mint and move, of each standard, and a payer of coins.
pragma solidity ^0.8.20;

contract Coin {
    event Transfer(address indexed from, address indexed to, uint256 value);

    string public name = "Lake Coin";
    string public symbol = "LAKE";
    uint8 public decimals = 6;
    mapping(address => uint256) public balanceOf;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function move(address from, address to, uint256 value) external {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function moveMany(address from, address to, uint256 value, uint256 times) external {
        for (uint256 i = 0; i < times; i++) {
            balanceOf[from] -= value;
            balanceOf[to] += value;
            emit Transfer(from, to, value);
        }
    }
}

// An early token: names of 32 bytes, and more decimals than any token has.
contract OldCoin {
    event Transfer(address indexed from, address indexed to, uint256 value);

    bytes32 public name = "Old Coin";
    bytes32 public symbol = "OLD";
    uint256 public decimals = 1000;

    function mint(address to, uint256 value) external {
        emit Transfer(address(0), to, value);
    }
}

contract Item {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    string public name = "Lake Item";
    string public symbol = "ITEM";

    function move(address from, address to, uint256 id) external {
        emit Transfer(from, to, id);
    }
}

contract Goods {
    event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value);
    event TransferBatch(
        address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values
    );

    function move(address from, address to, uint256 id, uint256 value) external {
        emit TransferSingle(msg.sender, from, to, id, value);
    }

    function moveBatch(address from, address to, uint256[] calldata ids, uint256[] calldata values) external {
        emit TransferBatch(msg.sender, from, to, ids, values);
    }
}

contract Payer {
    function pay(address payable to) external payable {
        (bool done,) = to.call{value: msg.value}("");
        require(done, "not paid");
    }

    // The payment within is undone, the transaction is not.
    function payInVain(address payable to) external payable {
        try this.payAndFail{value: msg.value}(to) {} catch {}
    }

    function payAndFail(address payable to) external payable {
        (bool done,) = to.call{value: msg.value}("");
        require(!done, "on purpose");
    }
}
